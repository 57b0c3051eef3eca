# The API, the workers and the scheduler in one image, without the embedded engines. The command selects the process.
ARG PYTHON_IMAGE=python:3.12-slim
# Languages in which scans are read, as in the names of Debian's packages (tesseract-ocr-LANGUAGE); empty: no OCR.
ARG OCR_LANGUAGES="eng deu"
FROM ${PYTHON_IMAGE} AS build
ARG OCR_LANGUAGES
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/foreask
WORKDIR /src
COPY requirements requirements
# Every package is checked against its hash, and stays in its layer while only our own files change.
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/foreask/bin/pip install --no-deps -r requirements/server.txt ${OCR_LANGUAGES:+-r requirements/ocr.txt}
COPY pyproject.toml ABOUT.md LICENSE ./
COPY api api
COPY cli cli
COPY clients clients
COPY features features
COPY shared shared
COPY workers workers
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/foreask/bin/pip install --no-deps ./clients/python ./clients/mcp ./clients/evaluation . \
    && /opt/foreask/bin/pip check && /opt/foreask/bin/pip uninstall --yes pip

FROM ${PYTHON_IMAGE}
ARG OCR_LANGUAGES
# Only data: the engine itself is in a Python package. 1 to 4 MB for each language.
RUN [ -z "$OCR_LANGUAGES" ] || { apt-get update \
    && for language in $OCR_LANGUAGES; do packages="$packages tesseract-ocr-$(echo "$language" | tr _ -)"; done \
    && apt-get install --yes --no-install-recommends $packages && rm -rf /var/lib/apt/lists/*; }
# A new volume gets the owner of the folder on which it is mounted, so the image contains both folders.
RUN groupadd --system --gid 10001 foreask && useradd --system --uid 10001 --gid foreask --home-dir /data foreask \
    && install -d -o foreask -g foreask /data /data/uploads
COPY --from=build /opt/foreask /opt/foreask
ENV PATH=/opt/foreask/bin:$PATH PYTHONUNBUFFERED=1 FOREASK_DATA_DIR=/data
USER foreask
WORKDIR /data
EXPOSE 8350
# `make release` sets both.
ARG VERSION=unreleased
ARG REVISION=unknown
LABEL org.opencontainers.image.title="foreask" \
    org.opencontainers.image.description="Question-to-question retrieval over your documents" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.licenses="Apache-2.0"
# A health check needs the name of the process: docker-compose.yml and the chart define one for each.
ENTRYPOINT ["foreask"]
CMD ["api"]
