"""The base of all routes: bodies, replies, errors, access and the state of an application.

Routes of the API and of features import it; an import contract keeps it, and FastAPI, out of the workers.
"""
