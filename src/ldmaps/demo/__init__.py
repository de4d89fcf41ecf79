"""The method on the alanine dipeptide that ships with the package: ``ldmaps demo``."""
