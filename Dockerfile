# The three commands in an image without anything else. Any builder with Go (of the version in
# go.mod), a shell and CA certificates will do:
#
#	docker build --build-arg BUILDER=IMAGE --build-arg VERSION=v1.2.3 -t rshub .
#
# Two builds with the same builder, arguments and timestamp give the same digest:
#
#	buildah build --timestamp "$(git log -1 --format=%ct)" --build-arg SOURCE_DATE_EPOCH=... .
#
# The commands are built for the platform of the image on that of the builder, so an image for
# another processor needs no emulation.
ARG BUILDER=golang:1.26-bookworm

FROM --platform=$BUILDPLATFORM ${BUILDER} AS build
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=dev
ARG REVISION=
ARG SOURCE_DATE_EPOCH=0
ENV GOTOOLCHAIN=local CGO_ENABLED=0
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN set -eu; mkdir -p /out/usr/share/rshub /out/etc/ssl/certs /empty; \
	GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION -X github.com/rshub/rshub/internal/program/cli.commit=$REVISION" -o /out/ ./cmd/...; \
	cp "$(go env GOROOT)/lib/time/zoneinfo.zip" /out/usr/share/; \
	cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/; \
	cp LICENSE /out/usr/share/rshub/; \
	for program in rshub rspub rssub; do GOOS=$TARGETOS GOARCH=$TARGETARCH tools/licenses $program > /out/usr/share/rshub/$program-third-party.txt; done; \
	echo 'rshub:x:65532:65532:rshub:/var/lib/rshub:/nonexistent' > /out/etc/passwd; \
	echo 'rshub:x:65532:' > /out/etc/group; \
	go run tools/sbom/main.go -version "$VERSION" -created "$SOURCE_DATE_EPOCH" /out/rshub /out/rspub /out/rssub > /out/usr/share/rshub/sbom.spdx.json; \
	chmod -R u=rwX,go=rX /out

FROM scratch
ARG VERSION=dev
ARG REVISION=
LABEL org.opencontainers.image.title="rshub" \
	org.opencontainers.image.description="A WebSub hub for ResourceSync change notifications, with a Source and a Destination" \
	org.opencontainers.image.source="https://github.com/rshub/rshub" \
	org.opencontainers.image.licenses="Apache-2.0" \
	org.opencontainers.image.version="${VERSION}" \
	org.opencontainers.image.revision="${REVISION}"
ENV PATH=/ ZONEINFO=/usr/share/zoneinfo.zip
COPY --from=build /out/ /
# The only folders that need to be writable, so the rest may be read-only.
COPY --from=build --chown=65532:65532 /empty/ /tmp/
COPY --from=build --chown=65532:65532 /empty/ /var/lib/rshub/
USER 65532:65532
WORKDIR /var/lib/rshub
CMD ["rshub", "--help"]
