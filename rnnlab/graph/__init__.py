"""The theory: cyclic graphs with time delays, their exact measures, schedules and pictures. Imports no torch."""
