package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/program/cli"
)

const (
	// serviceAccount is where Kubernetes puts the credentials of a pod.
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"
	kubeTime       = 30 * time.Second
	maxKubeAnswer  = 1 << 20
)

// kubeSecret is the Secret that kube-secret creates.
type kubeSecret struct {
	name, adminTokenKey, sealKeysKey string

	server string // https://host:port of the API server
	dir    string // with the credentials, as serviceAccount
}

func kubeSecretCommand(getenv func(string) string) *cobra.Command {
	s := kubeSecret{dir: serviceAccount}
	cmd := &cobra.Command{
		Use: "kube-secret NAME", Short: "Create the Secret of the Helm chart in a cluster, if it does not exist", Args: cli.Exactly("Secret"),
		Long: `Runs in a pod, with the credentials of its service account. It creates the Secret NAME
in the namespace of the pod, with a new operator's token and a new seal key. It never
changes an existing Secret: without the old seal key the hub could not read the stored
secrets of subscribers. The Helm chart runs this before an installation.`,
		Example: "  rshub kube-secret rshub-keys",
		RunE: func(cmd *cobra.Command, args []string) error {
			host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
			if host == "" || port == "" {
				return cli.Fail(cli.ExitUsage, "this is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
			}
			s.name, s.server = args[0], "https://"+net.JoinHostPort(host, port)
			made, err := s.make(cmd.Context())
			if err != nil {
				return err
			}
			text := "The Secret %s exists already. Nothing was changed.\n"
			if made {
				text = "Created the Secret %s. Store a copy of it somewhere else.\n"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), text, s.name)
			return err
		},
	}
	cmd.Flags().StringVar(&s.adminTokenKey, "admin-token-key", "admin-token", "`KEY` of the operator's token in the Secret")
	cmd.Flags().StringVar(&s.sealKeysKey, "seal-keys-key", "seal-keys", "`KEY` of the seal keys in the Secret")
	return cmd
}

// make creates the Secret, and reports whether it did. It leaves an existing one unchanged.
func (s *kubeSecret) make(ctx context.Context) (made bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, kubeTime)
	defer cancel()
	read := func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(s.dir, name)) } //nolint:gosec // the folder belongs to the pod
	token, err1 := read("token")
	namespace, err2 := read("namespace")
	authority, err3 := read("ca.crt")
	if err := errors.Join(err1, err2, err3); err != nil {
		return false, fmt.Errorf("the credentials of the pod: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return false, errors.New("the credentials of the pod: there is no certificate in ca.crt")
	}
	body, err := s.object()
	if err != nil {
		return false, err
	}
	url := s.server + "/api/v1/namespaces/" + strings.TrimSpace(string(namespace)) + "/secrets"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for this server
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, fmt.Errorf("the API server of Kubernetes: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxKubeAnswer))
	switch {
	case err != nil:
		return false, fmt.Errorf("the API server of Kubernetes: %w", err)
	case resp.StatusCode == http.StatusCreated:
		return true, nil
	case resp.StatusCode == http.StatusConflict:
		return false, nil
	}
	var status struct{ Message string }
	_ = json.Unmarshal(answer, &status) // without a message the status is enough
	return false, cli.Fail(cli.ExitRefused, "the API server of Kubernetes answers %s: %s", resp.Status, cli.Line(status.Message))
}

// object is the Secret in the JSON of the Kubernetes API.
func (s *kubeSecret) object() ([]byte, error) {
	random := func() string {
		b := make([]byte, 32)
		_, _ = rand.Read(b) // it never fails
		return base64.StdEncoding.EncodeToString(b)
	}
	return json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata":   map[string]any{"name": s.name, "annotations": map[string]string{"helm.sh/resource-policy": "keep"}},
		"stringData": map[string]string{s.adminTokenKey: random(), s.sealKeysKey: random()},
	})
}
