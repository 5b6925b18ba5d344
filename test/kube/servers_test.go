package kube

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	apiServer   = "https://" + gateway + ":6443"
	kubeletPort = 10250
)

// cluster is Kubernetes, as far as it is real here, and the node that stands in for the rest.
type cluster struct {
	dir    string
	config *rest.Config
	client kubernetes.Interface
	node   *node
}

// startCluster starts etcd, the API server, its controllers and the node.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	began := time.Now()
	c := &cluster{dir: t.TempDir()}
	if err := os.Chmod(c.dir, 0o755); err != nil { // user 65532 runs what is in it
		t.Fatal(err)
	}
	if err := certificates(c.dir); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(c.dir, name) }
	c.start(t, "etcd", "--data-dir="+in("etcd"), "--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=default=http://127.0.0.1:2380", "--unsafe-no-fsync", "--log-level=error")
	c.start(t, filepath.Join(*servers, "kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379", "--bind-address="+gateway, "--advertise-address="+gateway, "--secure-port=6443",
		"--service-cluster-ip-range="+serviceIPs, "--tls-cert-file="+in("server.crt"), "--tls-private-key-file="+in("server.key"), "--client-ca-file="+in("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local", "--service-account-key-file="+in("accounts.pub"), "--service-account-signing-key-file="+in("accounts.key"),
		"--kubelet-client-certificate="+in("admin.crt"), "--kubelet-client-key="+in("admin.key"), "--kubelet-preferred-address-types=InternalIP",
		"--authorization-mode=RBAC", "--profiling=false", "--feature-gates=SizeBasedListCostEstimate=false")
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", in("kubeconfig")); err != nil {
		t.Fatal(err)
	}
	c.config.QPS, c.config.Burst = 200, 400
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Minute, "the API server is ready", func() error {
		_, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		return err
	})
	// No kubelet renews leases here, and nodes have no ranges of addresses.
	c.start(t, filepath.Join(*servers, "kube-controller-manager"), "--kubeconfig="+in("kubeconfig"), "--root-ca-file="+in("ca.crt"), "--service-account-private-key-file="+in("accounts.key"),
		"--use-service-account-credentials", "--leader-elect=false", "--bind-address=127.0.0.1", "--enable-hostpath-provisioner", "--controllers=*,-node-lifecycle-controller,-node-ipam-controller")
	c.storage(t, "standard", true)
	if c.node, err = startNode(t.Context(), c.client, c.dir); err != nil {
		t.Fatal(err)
	}
	t.Logf("the cluster is ready after %s", time.Since(began).Round(time.Second))
	return c
}

// storage makes a StorageClass; the controller manager makes its volumes.
func (c *cluster) storage(t *testing.T, name string, standard bool) {
	t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "kubernetes.io/host-path"}
	if standard {
		class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	}
	if _, err := c.client.StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// start starts a server, which ends with the test. What it prints is shown if the test fails.
func (c *cluster) start(t *testing.T, name string, args ...string) {
	t.Helper()
	file := filepath.Join(c.dir, filepath.Base(name)+".log")
	output, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...) //nolint:noctx // stopped below
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		select {
		case <-ended:
			t.Errorf("%s ended by itself: %s", filepath.Base(name), cmd.ProcessState)
		default:
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = output.Close()
		if text, _ := os.ReadFile(file); t.Failed() {
			t.Logf("--- %s\n%s", filepath.Base(file), text[max(0, len(text)-6000):])
		}
	})
}

// namespace makes a namespace where the API server refuses every pod that is not restricted.
func (c *cluster) namespace(t *testing.T, name string) {
	t.Helper()
	_, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the namespace has its ServiceAccount", func() error {
		_, err := c.client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

// helm runs helm to its end.
func (c *cluster) helm(ctx context.Context, namespace string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(*servers, "helm"), args...)
	cmd.Env = []string{"KUBECONFIG=" + filepath.Join(c.dir, "kubeconfig"), "HELM_NAMESPACE=" + namespace, "HOME=" + c.dir, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("helm %s: %w\n%s", args, err, out)
	}
	return string(out), err
}

// certificates writes those of the API server and of the administrator, the keys of service
// accounts, and a kubeconfig.
func certificates(dir string) error {
	authority, err := newKey(dir, "ca")
	if err != nil {
		return err
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	if err := certify(dir, "ca", root, root, authority.Public(), authority); err != nil {
		return err
	}
	for name, c := range map[string]*x509.Certificate{
		"server": {
			Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			IPAddresses: []net.IP{net.ParseIP(gateway), net.ParseIP("10.96.0.1"), net.ParseIP("127.0.0.1")}, DNSNames: []string{"kubernetes.default.svc"},
		},
		"admin": {Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	} {
		key, err := newKey(dir, name)
		if err != nil {
			return err
		}
		c.SerialNumber, c.KeyUsage = big.NewInt(time.Now().UnixNano()), x509.KeyUsageDigitalSignature
		if err := certify(dir, name, c, root, key.Public(), authority); err != nil {
			return err
		}
	}
	accounts, err := newKey(dir, "accounts")
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(accounts.Public())
	if err != nil {
		return err
	}
	if err := writePEM(dir, "accounts.pub", "PUBLIC KEY", public); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "kubeconfig"), fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, certificate-authority: ca.crt}}]
users: [{name: admin, user: {client-certificate: admin.crt, client-key: admin.key}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
`, apiServer), 0o600)
}

func newKey(dir, name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(dir, name+".key", "PRIVATE KEY", der)
}

func certify(dir, name string, c, root *x509.Certificate, public crypto.PublicKey, authority *ecdsa.PrivateKey) error {
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, root, public, authority)
	if err != nil {
		return err
	}
	return writePEM(dir, name+".crt", "CERTIFICATE", der)
}

func writePEM(dir, name, kind string, der []byte) error {
	return os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
