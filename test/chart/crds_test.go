package chart

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// defined are the kinds that are not of Kubernetes. Their definitions are in the modules of
// those who make them.
var defined = map[string]struct{ module, file string }{
	"keda.sh/v1alpha1 ScaledObject":           {"github.com/kedacore/keda/v2", "config/crd/bases/keda.sh_scaledobjects.yaml"},
	"monitoring.coreos.com/v1 PrometheusRule": {"github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"},
	"monitoring.coreos.com/v1 ServiceMonitor": {"github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"},
	"gateway.networking.k8s.io/v1 HTTPRoute":  {"sigs.k8s.io/gateway-api", "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"},
}

var definitions sync.Map // the *jsonschema.Schema of a kind

// definitionOf reads the schema of a kind from its definition, at the version that `make kube`
// installs.
func definitionOf(t *testing.T, of string) *jsonschema.Schema {
	t.Helper()
	known, _ := definitions.Load(of)
	if s, ok := known.(*jsonschema.Schema); ok {
		return s
	}
	where := defined[of]
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-modfile=../kube/crds.mod", "-json", where.module).Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil {
		t.Fatalf("the module %s: %v\n%s", where.module, err, out)
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, where.file))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	version := of[strings.IndexByte(of, '/')+1 : strings.IndexByte(of, ' ')]
	for _, v := range crd.Spec.Versions {
		if v.Name != version {
			continue
		}
		schema := v.Schema.OpenAPIV3Schema
		properties, _ := schema["properties"].(map[string]any)
		properties["metadata"] = map[string]any{} // it has no fields of its own there
		strict(schema)
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft4) // the nearest to that of OpenAPI 3.0
		if err := c.AddResource(of, schema); err != nil {
			t.Fatal(err)
		}
		s, err := c.Compile(of)
		if err != nil {
			t.Fatal(err)
		}
		definitions.Store(of, s)
		return s
	}
	t.Fatalf("%s has no version %s", where.file, version)
	return nil
}

// strict makes a schema refuse fields that it does not name, as the API server does with
// strict validation.
func strict(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		_, more := s["additionalProperties"]
		if _, names := s["properties"].(map[string]any); names && s["type"] == "object" && !more && s["x-kubernetes-preserve-unknown-fields"] != true {
			s["additionalProperties"] = false
		}
		for _, below := range s {
			strict(below)
		}
	case []any:
		for _, below := range s {
			strict(below)
		}
	}
}

// conforms checks an object against the definition of its kind.
func conforms(t *testing.T, of, text string) {
	t.Helper()
	var object any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	if err := definitionOf(t, of).Validate(object); err != nil {
		t.Errorf("%s: %v\n%s", of, err, text)
	}
}
