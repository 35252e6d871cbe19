# A static binary, the authorities it trusts and a place for its data, run by nobody.
#
#   docker build --build-arg VERSION=v1.0.0 -t waterclock .

FROM golang:1.26.8-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d AS build
ARG VERSION=devel
WORKDIR /src
COPY go.mod go.sum ./
COPY clients/go/go.mod clients/go/go.sum clients/go/
RUN --mount=type=cache,target=/go/pkg/mod go mod download
# The sources are only looked at: no layer holds what lies beside them.
RUN --mount=type=bind,target=/src \
    --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION}" -o /out/waterclock ./cmd/waterclock
RUN mkdir /out/data

FROM busybox:1.37.0-musl@sha256:5cec3fc171c87218698e85a52af7087de727372aae264a787b8112901a5b0092 AS busybox

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/waterclock /waterclock
COPY --from=build --chown=65532:65532 --chmod=0700 /out/data /data
# For health checks, which otherwise would need a shell.
COPY --from=busybox /bin/wget /bin/wget
USER 65532:65532
ENV WATERCLOCK_DATA_DIR=/data
VOLUME /data
ENTRYPOINT ["/waterclock"]
CMD ["--help"]
