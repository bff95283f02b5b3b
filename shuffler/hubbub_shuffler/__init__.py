"""The shuffler: sees who sends, never what.

It takes sealed reports, keeps nothing about who sent them, waits for a crowd, and forwards the crowd in random order.

    ingest      POST /v1/reports: reports are checked, made durable and acknowledged; rate limits keep no address
    batching    a bucket (metric, period, key) closes once and becomes batches in random order, or is discarded
    forwarding  one attempt to hand a batch to the aggregator, and what the answer means
    bundle      the signed bundle: fetched, verified, relayed byte for byte
    operations  metrics and status for the operator, on a separate listener
    storage     where reports wait: SQLite or Redis
"""
