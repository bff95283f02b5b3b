"""Text, tables and charts for a terminal."""
