package main

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rshub/rshub/store/seal"
)

// The Secret is created once, with a key that the hub accepts, and never replaced.
func TestKubeSecret(t *testing.T) {
	status, asked := http.StatusCreated, 0
	var body []byte
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		body, _ = io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/hubs/secrets" || r.Header.Get("Authorization") != "Bearer the-token" {
			t.Errorf("%s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"message":"secrets is forbidden"}`)
	}))
	defer server.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"token": "the-token\n", "namespace": "hubs",
		"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := kubeSecret{name: "rshub-keys", adminTokenKey: "token", sealKeysKey: "keys", server: server.URL, dir: dir}
	if made, err := s.make(t.Context()); !made || err != nil {
		t.Fatal(made, err)
	}
	var object struct {
		Kind       string
		Metadata   struct{ Name string }
		StringData map[string]string
	}
	if err := json.Unmarshal(body, &object); err != nil || object.Kind != "Secret" || object.Metadata.Name != "rshub-keys" || len(object.StringData["token"]) < 16 {
		t.Errorf("%s: %v", body, err)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte(object.StringData["keys"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := seal.ReadFile(keys); err != nil {
		t.Errorf("the hub does not take the seal key: %v", err)
	}
	first := string(body)
	status = http.StatusConflict
	if made, err := s.make(t.Context()); made || err != nil || asked != 2 || string(body) == first {
		t.Errorf("where there is one: %t, %v, asked %d times", made, err, asked)
	}
	status = http.StatusForbidden
	if _, err := s.make(t.Context()); err == nil || !strings.Contains(err.Error(), "secrets is forbidden") {
		t.Errorf("forbidden: %v", err)
	}
	s.dir = t.TempDir()
	if _, err := s.make(t.Context()); err == nil || asked != 3 {
		t.Errorf("without credentials: %v", err)
	}
}
