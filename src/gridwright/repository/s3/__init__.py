"""The store that S3 and its like are: awscrt moves data, boto3 lists, copies and deletes."""
