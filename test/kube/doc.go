// Package kube checks the Helm chart on a real API server, with the real controllers of Kubernetes
// and the real helm command. A program stands in for scheduler and kubelet (node_test.go): it binds
// pods, and runs their commands as processes with a network of their own, the root folder of the
// image, the volumes, the user and the probes that the chart names. It is a module of its own,
// because Kubernetes is large. `make kube` runs it: it needs root and etcd.
//
// All of it runs in a network namespace that leads nowhere, and ends with the test.
//
// Three things differ from a cluster:
//
//   - NetworkPolicies are stored, and nothing enforces them.
//   - There are no limits of CPU and memory, no seccomp profile and no container runtime. The
//     image is a folder with the commands of this repository.
//   - A Service is a TCP forwarder. It learns a second late which pods are ready, as kube-proxy may.
package kube
