// The modules whose definitions of kinds the test installs. Nothing of them is compiled.
module github.com/rshub/rshub/test/kube/crds

go 1.26.0

require (
	github.com/kedacore/keda/v2 v2.21.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/gateway-api v1.6.0
)
