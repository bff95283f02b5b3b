"""One module for each page: from answers of the API to what its template shows."""
