"""What holds libraries and jobs back: resources with their measured use, who else uses them, since when."""
