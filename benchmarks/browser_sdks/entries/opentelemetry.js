import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
const readers = [new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter({ url: "/metrics" }) })];
new MeterProvider({ readers }).getMeter("app").createCounter("opened").add(1);
