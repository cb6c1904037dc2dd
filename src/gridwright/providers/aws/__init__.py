"""Provider aws: a grid as two CloudFormation stacks, one for what holds data, one for what runs."""
