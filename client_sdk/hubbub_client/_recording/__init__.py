"""Record and reduce: from a value that an app records to one value per period."""
