"""The store that S3 and its like are: plain requests move data, botocore does what is rare."""
