# The last step of every image: our own panel, on top because it changes most often, and the site's settings.
ARG BASE
FROM ${BASE}
USER root
COPY panel/ /usr/local/lib/nbgpu/panel/
RUN set -eu; \
    pip="/opt/nbgpu/bin/python -m pip --disable-pip-version-check --no-cache-dir"; \
    $pip install --no-compile --no-index --no-deps /usr/local/lib/nbgpu/panel/*.whl; \
    $pip check; \
    python3 /usr/local/lib/nbgpu/compile_bytecode.py /opt/nbgpu
USER nbgpu
