// Package k8s decodes the manifests that "securebench launch k8s" writes with Kubernetes'
// own types. It is a module of its own, so that nothing of Kubernetes is linked into the
// program.
package k8s

import (
	"fmt"

	batch "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Decode reads one manifest strictly: a field that its kind does not have, or that is
// there twice, is an error.
func Decode(manifest []byte) (runtime.Object, error) {
	scheme := runtime.NewScheme()
	if err := batch.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("adding the kinds of %s: %w", batch.SchemeGroupVersion, err)
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	object, _, err := codecs.UniversalDeserializer().Decode(manifest, nil, nil)
	return object, err
}
