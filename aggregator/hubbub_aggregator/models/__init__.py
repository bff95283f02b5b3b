"""Response models: the JSON that the API returns."""
