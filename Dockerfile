# The API, the workers and the scheduler in one image, without the embedded engines. The command selects the process.
ARG PYTHON_IMAGE=python:3.12-slim
FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/foreask
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY api api
COPY cli cli
COPY clients clients
COPY shared shared
COPY workers workers
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/foreask/bin/pip install --constraint constraints.txt ./clients/python ./clients/mcp ./clients/evaluation . \
    && /opt/foreask/bin/pip uninstall --yes pip

FROM ${PYTHON_IMAGE}
# A new volume gets the owner of the folder on which it is mounted, so the image contains both folders.
RUN useradd --system --uid 10001 --user-group --home-dir /data foreask \
    && install -d -o foreask -g foreask /data /data/uploads
COPY --from=build /opt/foreask /opt/foreask
ENV PATH=/opt/foreask/bin:$PATH PYTHONUNBUFFERED=1 FOREASK_DATA_DIR=/data
USER foreask
WORKDIR /data
EXPOSE 8350
ENTRYPOINT ["foreask"]
CMD ["api"]
