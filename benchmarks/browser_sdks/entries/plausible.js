import { init, track } from "@plausible-analytics/tracker";
init({ domain: "example.com", endpoint: "/event" });
track("opened", {});
