"""Finding changes by Lustre's changelogs: what metadata servers note, in place of looking at all names."""
