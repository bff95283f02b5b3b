"""The SDK that an app embeds. Not written yet: this package only holds its place in the import contracts."""
