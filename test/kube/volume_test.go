package kube

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/volume/util"
)

// volume makes a volume of the pod, or brings what is in it up to date, and returns its folder.
func (p *pod) volume(ctx context.Context, v *corev1.Volume) (string, error) {
	dir := filepath.Join(p.dir, "volumes", v.Name)
	switch {
	case v.EmptyDir != nil:
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return "", err
		}
		return dir, p.own(dir, 0o777)
	case v.PersistentVolumeClaim != nil:
		return p.disk(ctx, v.PersistentVolumeClaim.ClaimName)
	}
	files, err := p.files(ctx, v)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	// This is the code of the kubelet, so all files change at once, by way of a symbolic link.
	w, err := util.NewAtomicWriter(dir, p.spec.Name)
	if err != nil {
		return "", err
	}
	return dir, w.Write(files, func(sub string) error {
		return filepath.WalkDir(filepath.Join(dir, sub), func(name string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(name, 0, p.group())
		})
	})
}

// files are the files of a volume that Secrets, ConfigMaps or the pod itself fill.
func (p *pod) files(ctx context.Context, v *corev1.Volume) (map[string]util.FileProjection, error) {
	all := map[string]util.FileProjection{}
	switch {
	case v.Secret != nil:
		return all, p.secret(ctx, v.Secret.SecretName, v.Secret.Items, *v.Secret.DefaultMode, v.Secret.Optional, all)
	case v.ConfigMap != nil:
		return all, p.configMap(ctx, v.ConfigMap.Name, v.ConfigMap.Items, *v.ConfigMap.DefaultMode, v.ConfigMap.Optional, all)
	case v.Projected == nil:
		return nil, fmt.Errorf("volume %s is of a kind that this test does not know", v.Name)
	}
	for _, s := range v.Projected.Sources {
		mode := *v.Projected.DefaultMode
		switch {
		case s.Secret != nil:
			if err := p.secret(ctx, s.Secret.Name, s.Secret.Items, mode, s.Secret.Optional, all); err != nil {
				return nil, err
			}
		case s.ConfigMap != nil:
			if err := p.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Items, mode, s.ConfigMap.Optional, all); err != nil {
				return nil, err
			}
		case s.DownwardAPI != nil:
			for _, item := range s.DownwardAPI.Items {
				value, err := p.field(item.FieldRef.FieldPath)
				if err != nil {
					return nil, err
				}
				all[item.Path] = util.FileProjection{Data: []byte(value), Mode: mode}
			}
		case s.ServiceAccountToken != nil:
			if p.token == "" {
				t, err := p.node.client.CoreV1().ServiceAccounts(p.spec.Namespace).CreateToken(ctx, p.spec.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
					Spec: authenticationv1.TokenRequestSpec{
						ExpirationSeconds: s.ServiceAccountToken.ExpirationSeconds,
						BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.spec.Name, UID: p.spec.UID},
					},
				}, metav1.CreateOptions{})
				if err != nil {
					return nil, err
				}
				p.token = t.Status.Token
			}
			all[s.ServiceAccountToken.Path] = util.FileProjection{Data: []byte(p.token), Mode: 0o600 | 0o040}
		default:
			return nil, fmt.Errorf("volume %s has a source that this test does not know", v.Name)
		}
	}
	return all, nil
}

func (p *pod) secret(ctx context.Context, name string, items []corev1.KeyToPath, mode int32, optional *bool, into map[string]util.FileProjection) error {
	s, err := p.node.client.CoreV1().Secrets(p.spec.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return absent(err, optional)
	}
	return project(s.Data, items, mode, into)
}

func (p *pod) configMap(ctx context.Context, name string, items []corev1.KeyToPath, mode int32, optional *bool, into map[string]util.FileProjection) error {
	c, err := p.node.client.CoreV1().ConfigMaps(p.spec.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return absent(err, optional)
	}
	data := map[string][]byte{}
	for key, value := range c.Data {
		data[key] = []byte(value)
	}
	return project(data, items, mode, into)
}

func absent(err error, optional *bool) error {
	if optional != nil && *optional {
		return nil
	}
	return err
}

func project(data map[string][]byte, items []corev1.KeyToPath, mode int32, into map[string]util.FileProjection) error {
	if items == nil {
		for key, value := range data {
			into[key] = util.FileProjection{Data: value, Mode: mode}
		}
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			return fmt.Errorf("there is no key %s", item.Key)
		}
		if item.Mode != nil {
			mode = *item.Mode
		}
		into[item.Path] = util.FileProjection{Data: value, Mode: mode}
	}
	return nil
}

// disk is the folder behind a claim. Like the kubelet, it gives the folder to the group of the pod,
// if the file system can do that. The volumes here are folders, and stand for disks.
func (p *pod) disk(ctx context.Context, claim string) (string, error) {
	c, err := p.node.client.CoreV1().PersistentVolumeClaims(p.spec.Namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if c.Status.Phase != corev1.ClaimBound {
		return "", fmt.Errorf("the claim %s is %s", claim, c.Status.Phase)
	}
	v, err := p.node.client.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	dir := v.Spec.HostPath.Path
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	return dir, p.own(dir, info.Mode().Perm())
}

// own gives a folder and its content to the group of the pod (fsGroup), unless the folder has that
// group already (fsGroupChangePolicy: OnRootMismatch).
func (p *pod) own(dir string, mode fs.FileMode) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSetgid != 0 || p.group() == 0 {
		return nil
	}
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := os.Lchown(name, -1, p.group()); err != nil || e.Type()&fs.ModeSymlink != 0 {
			return err
		}
		i, err := e.Info()
		if err != nil {
			return err
		}
		more := fs.FileMode(0o660)
		if e.IsDir() {
			more = 0o770 | fs.ModeSetgid
		}
		return os.Chmod(name, i.Mode()|more)
	})
	if err != nil {
		return err
	}
	return os.Chmod(dir, mode|0o770|fs.ModeSetgid)
}

// group is the fsGroup of the pod, 0 if it has none.
func (p *pod) group() int {
	if s := p.spec.Spec.SecurityContext; s != nil && s.FSGroup != nil {
		return int(*s.FSGroup)
	}
	return 0
}
