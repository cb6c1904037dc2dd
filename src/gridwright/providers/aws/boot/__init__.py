"""What machines on AWS start with beside what all clouds have: a Python with boto3, and requests to AWS."""
