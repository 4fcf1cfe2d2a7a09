package launch

// The parts of a Kubernetes manifest that are written here, with their names there.
// The module tools/k8s decodes manifests with Kubernetes' own types.

type list struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Items      []any  `json:"items"`
}

type job struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       jobSpec  `json:"spec"`
}

type metadata struct {
	Name      string            `json:"name,omitzero"`
	Namespace string            `json:"namespace,omitzero"`
	Labels    map[string]string `json:"labels"`
}

type jobSpec struct {
	CompletionMode       string   `json:"completionMode,omitzero"`
	Completions          int      `json:"completions,omitzero"`
	Parallelism          int      `json:"parallelism"`
	BackoffLimit         int      `json:"backoffLimit,omitzero"`
	BackoffLimitPerIndex int      `json:"backoffLimitPerIndex,omitzero"`
	PodFailurePolicy     policy   `json:"podFailurePolicy"`
	Template             template `json:"template"`
}

type policy struct {
	Rules []rule `json:"rules"`
}

type rule struct {
	Action          string      `json:"action"`
	OnPodConditions []condition `json:"onPodConditions,omitzero"`
	OnExitCodes     *exitCodes  `json:"onExitCodes,omitzero"`
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

type exitCodes struct {
	ContainerName string `json:"containerName"`
	Operator      string `json:"operator"`
	Values        []int  `json:"values"`
}

type template struct {
	Metadata metadata `json:"metadata"`
	Spec     podSpec  `json:"spec"`
}

type podSpec struct {
	RestartPolicy                 string      `json:"restartPolicy"`
	AutomountServiceAccountToken  bool        `json:"automountServiceAccountToken"` // always false
	EnableServiceLinks            bool        `json:"enableServiceLinks"`           // always false
	RuntimeClassName              string      `json:"runtimeClassName,omitzero"`
	TerminationGracePeriodSeconds int         `json:"terminationGracePeriodSeconds"`
	SecurityContext               podSecurity `json:"securityContext"`
	Containers                    []container `json:"containers"`
	Volumes                       []volume    `json:"volumes"`
}

type podSecurity struct {
	RunAsUser      int64    `json:"runAsUser"`
	RunAsGroup     int64    `json:"runAsGroup"`
	RunAsNonRoot   bool     `json:"runAsNonRoot"`
	SeccompProfile *profile `json:"seccompProfile,omitzero"`
}

type profile struct {
	Type string `json:"type"`
}

type container struct {
	Name            string            `json:"name"`
	Image           string            `json:"image"`
	Args            []string          `json:"args"`
	WorkingDir      string            `json:"workingDir,omitzero"`
	Env             []variable        `json:"env"`
	EnvFrom         []source          `json:"envFrom,omitzero"`
	SecurityContext containerSecurity `json:"securityContext"`
	VolumeMounts    []mount           `json:"volumeMounts"`
}

type variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type source struct {
	SecretRef named `json:"secretRef"`
}

type named struct {
	Name string `json:"name"`
}

type containerSecurity struct {
	Privileged               bool          `json:"privileged,omitzero"`
	AllowPrivilegeEscalation *bool         `json:"allowPrivilegeEscalation,omitzero"`
	ReadOnlyRootFilesystem   bool          `json:"readOnlyRootFilesystem,omitzero"`
	Capabilities             *capabilities `json:"capabilities,omitzero"`
}

type capabilities struct {
	Drop []string `json:"drop"`
}

type mount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly,omitzero"`
}

type volume struct {
	Name     string    `json:"name"`
	Claim    *claim    `json:"persistentVolumeClaim,omitzero"`
	Secret   *secret   `json:"secret,omitzero"`
	EmptyDir *struct{} `json:"emptyDir,omitzero"`
}

type claim struct {
	ClaimName string `json:"claimName"`
}

type secret struct {
	SecretName string `json:"secretName"`
}

type networkPolicy struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Metadata   metadata      `json:"metadata"`
	Spec       networkLimits `json:"spec"`
}

type networkLimits struct {
	PodSelector selector `json:"podSelector"`
	PolicyTypes []string `json:"policyTypes"`
	Ingress     []door   `json:"ingress,omitzero"`
	Egress      []way    `json:"egress,omitzero"`
}

type door struct {
	Ports []port `json:"ports"`
}

type selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type way struct {
	To    []peer `json:"to"`
	Ports []port `json:"ports"`
}

type peer struct {
	IPBlock           *block    `json:"ipBlock,omitzero"`
	NamespaceSelector *selector `json:"namespaceSelector,omitzero"`
	PodSelector       *selector `json:"podSelector,omitzero"`
}

type block struct {
	CIDR string `json:"cidr"`
}

type service struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Metadata   metadata    `json:"metadata"`
	Spec       serviceSpec `json:"spec"`
}

type serviceSpec struct {
	ClusterIP string            `json:"clusterIP"`
	Selector  map[string]string `json:"selector"`
	Ports     []servicePort     `json:"ports"`
}

type servicePort struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}

type statefulSet struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       setSpec  `json:"spec"`
}

type setSpec struct {
	Replicas    int      `json:"replicas"`
	ServiceName string   `json:"serviceName"`
	Selector    selector `json:"selector"`
	Template    template `json:"template"`
}

type port struct {
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}
