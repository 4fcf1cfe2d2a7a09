// Package k8s decodes the manifests that "securebench launch k8s" writes with Kubernetes'
// own types. It is a module of its own, so that nothing of Kubernetes is linked into the
// program.
package k8s

import (
	"fmt"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Decode reads manifests strictly, one or a list of them: a field that a kind does not
// have, or that is there twice, is an error.
func Decode(manifests []byte) ([]runtime.Object, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{core.AddToScheme, apps.AddToScheme, batch.AddToScheme, networking.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("adding Kubernetes' kinds: %w", err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	object, _, err := decoder.Decode(manifests, nil, nil)
	if err != nil {
		return nil, err
	}
	list, ok := object.(*core.List)
	if !ok {
		return []runtime.Object{object}, nil
	}
	var out []runtime.Object
	for _, item := range list.Items {
		object, _, err := decoder.Decode(item.Raw, nil, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, object)
	}
	return out, nil
}
