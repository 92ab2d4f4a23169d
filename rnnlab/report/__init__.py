"""Reports: figures as numbers, then as drawings, then as one page."""
