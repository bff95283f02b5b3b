import Task from "@divviup/dap";
const task = new Task({ type: "count", id: "AAAA", leader: "https://example.com", helper: "https://example.org", timePrecisionSeconds: 60 });
void task.sendMeasurement(true);
