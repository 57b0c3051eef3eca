# The object store of `make compose-test`: moto's S3 server.
FROM python:3.12-slim
COPY constraints.txt .
RUN --mount=type=cache,target=/root/.cache/pip pip install --constraint constraints.txt "moto[s3,server]"
USER 10001
EXPOSE 5000
ENTRYPOINT ["python", "-m", "moto.server", "-H", "0.0.0.0", "-p", "5000"]
