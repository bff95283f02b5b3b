// Written by `python -m scripts.make_typescript` from the Python code. Do not edit.

export const LABEL_REPORT = "hubbub-01 report\u0000";
export const BUNDLE_PATH = "/v1/bundle";
export const REPORTS_PATH = "/v1/reports";
export const NONCE_BYTES = 16;
export const MOST_REPORTS_OF_UPLOAD = 1000;
export const MOST_BYTES_OF_UPLOAD = 524288;
export const SUITE = "x25519-hkdf-sha256-aes-128-gcm";
export const SUITE_NUMBERS = "002000010001";
export const REPORTS_TYPE = "application/vnd.hubbub.reports";
