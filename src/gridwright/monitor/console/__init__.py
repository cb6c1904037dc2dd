"""The page that shows a grid as it is and as it was: a web server that only reads, and what browsers get."""
