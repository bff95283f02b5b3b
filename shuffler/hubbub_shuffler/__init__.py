"""The shuffler: sees who, never what.

It takes sealed reports, keeps nothing about who sent them, waits for a crowd, and hands the crowd on in random order.

    limits   how much one address may send, without an address being kept
    ingest   POST /v1/reports: checked, durable, acknowledged
    commits  what arrives together becomes durable together
    batcher  a bucket (metric, period, key) closes once, becomes batches or is discarded
    permute  who belongs to a batch and in which order: the same bytes at every retry
    forward  one attempt to hand a batch to the aggregator, and what its answer means
    bundles  the signed bundle, fetched, verified, relayed byte for byte
    asked    what outsiders ask the storage never queues up in front of uploads
    admin    metrics and status for the operator, on a listener of its own
"""
