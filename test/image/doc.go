// Package image checks the image that the Dockerfile makes and the containers of compose.yaml: it
// builds the image twice, unpacks it, and runs its commands as compose.yaml does, with a root
// folder that is read-only and without rights. `make image` runs it: it needs root, buildah and
// redis-server.
package image
