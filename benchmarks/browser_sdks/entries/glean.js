import Glean from "@mozilla/glean/web";
import CounterMetricType from "@mozilla/glean/private/metrics/counter";
Glean.initialize("app", true, { serverEndpoint: "https://example.com" });
new CounterMetricType({ category: "app", name: "opened", sendInPings: ["events"], lifetime: "ping", disabled: false }).add(1);
