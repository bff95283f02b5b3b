import { captureMessage, init } from "@sentry/browser";
init({ dsn: "https://key@example.com/1" });
captureMessage("opened");
