"""Size of the browser SDK beside others for web pages, and the time that it takes."""
