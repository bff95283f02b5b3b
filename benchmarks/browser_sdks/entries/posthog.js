import posthog from "posthog-js";
posthog.init("key", { api_host: "https://example.com" });
posthog.capture("opened");
