{{- define "rshub.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "rshub.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "rshub.name" .) .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name (include "rshub.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "rshub.selector" -}}
app.kubernetes.io/name: {{ include "rshub.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rshub.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "rshub.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "rshub.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Not empty: the store is Redis. */}}
{{- define "rshub.redis" -}}
{{ or .Values.redis.url .Values.redis.existingSecret }}
{{- end }}

{{- define "rshub.secret" -}}
{{ .Values.secrets.existingSecret | default (printf "%s-keys" (include "rshub.fullname" .)) }}
{{- end }}

{{/* The ranges for --allow-cidr, with that of the pod of helm test. */}}
{{- define "rshub.allow" -}}
{{ list (index .Values.settings "allow-cidr") .Values.tests.allowCidr | compact | join "," }}
{{- end }}

{{/* Nine tenths of the memory limit in MiB, for GOMEMLIMIT; empty: the limit is not in Mi or Gi. */}}
{{- define "rshub.memory" -}}
{{- $limit := (.Values.resources.limits).memory | default "" | toString -}}
{{- if regexMatch "^[0-9]+Gi$" $limit }}{{ div (mul (trimSuffix "Gi" $limit | int) 1024 9) 10 }}MiB
{{- else if regexMatch "^[0-9]+Mi$" $limit }}{{ div (mul (trimSuffix "Mi" $limit | int) 9) 10 }}MiB
{{- end }}
{{- end }}

{{- define "rshub.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "rshub.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* What pods of all parts have in common, as fields of a PodSpec. */}}
{{- define "rshub.pod" -}}
enableServiceLinks: false
automountServiceAccountToken: false
{{- with .Values.serviceAccount.name }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "rshub.podSecurity" . | nindent 2 }}
{{- end }}

{{/* A volume with the operator's token alone, for parts that need no key. */}}
{{- define "rshub.token" -}}
- name: token
  secret:
    secretName: {{ include "rshub.secret" . }}
    defaultMode: 0440
    items:
      - key: {{ .Values.secrets.adminTokenKey }}
        path: admin-token
{{- end }}

{{/* Probes of a Source or a Destination. */}}
{{- define "rshub.endProbes" -}}
startupProbe:
  httpGet:
    path: /livez
    port: admin
  periodSeconds: 2
  failureThreshold: 150
livenessProbe:
  httpGet:
    path: /livez
    port: admin
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: admin
  periodSeconds: 5
  timeoutSeconds: 6
{{- end }}

{{/* The Service of the operator's listener of a Source or a Destination: name, component and root in a dict. */}}
{{- define "rshub.endAdmin" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}-admin
  labels:
    {{- include "rshub.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}-admin
spec:
  publishNotReadyAddresses: true
  ports:
    - name: admin
      port: 9090
      targetPort: admin
  selector:
    {{- include "rshub.selector" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Combinations that can't work, each with a sentence. */}}
{{- define "rshub.check" -}}
{{- if not .Values.publicUrl }}{{ fail "publicUrl is missing: it is the hub URI exactly as Sources name it, such as https://hub.example.org/" }}{{ end }}
{{- if not (regexMatch "^https?://[^/?#]+/?[^?#]*$" .Values.publicUrl) }}{{ fail (printf "publicUrl: %q is not an absolute http or https URL" .Values.publicUrl) }}{{ end }}
{{- if and .Values.redis.url .Values.redis.existingSecret }}{{ fail "redis.url and redis.existingSecret exclude each other: choose one" }}{{ end }}
{{- if contains "@" .Values.redis.url }}{{ fail "redis.url has a password or a user name: put the URL into a Secret, and name that in redis.existingSecret" }}{{ end }}
{{- if not (include "rshub.redis" .) }}
{{- if gt (int .Values.replicaCount) 1 }}{{ fail "replicaCount is more than 1, and the embedded store is for one hub: set redis.url or redis.existingSecret" }}{{ end }}
{{- if or .Values.autoscaling.enabled .Values.keda.enabled }}{{ fail "autoscaling and keda need several hubs, and the embedded store is for one: set redis.url or redis.existingSecret" }}{{ end }}
{{- end }}
{{- if and .Values.autoscaling.enabled .Values.keda.enabled }}{{ fail "autoscaling and keda exclude each other: choose one" }}{{ end }}
{{- if and .Values.keda.enabled (not .Values.keda.serverAddress) }}{{ fail "keda.serverAddress is missing: it is the URL of the Prometheus that KEDA asks" }}{{ end }}
{{- if and .Values.gateway.enabled (not .Values.gateway.parentRefs) }}{{ fail "gateway.parentRefs is empty: name the Gateway that the route belongs to" }}{{ end }}
{{- range $name, $_ := .Values.settings }}
{{- if has $name (list "public-url" "listen" "admin-listen" "admin-token-file" "data-dir" "redis-url" "redis-url-file" "redis-prefix" "node-id" "seal-key-file" "publishers-file" "drain" "owner-lease" "config") }}
{{- fail (printf "settings.%s: the chart sets it by itself, from other values; the chart's README lists them" $name) }}
{{- end }}
{{- end }}
{{- if not (regexMatch "^([0-9a-fA-F:.]+/[0-9]+)?$" .Values.tests.allowCidr) }}{{ fail (printf "tests.allowCidr: %q is no range of addresses: write it as 10.244.0.0/16" .Values.tests.allowCidr) }}{{ end }}
{{- if .Values.rspub.enabled }}
{{- if not (and .Values.rspub.publicUrl .Values.rspub.resourcesClaim) }}{{ fail "rspub.enabled needs two more values: rspub.publicUrl, the public URL of the Source, and rspub.resourcesClaim, the claim with its resources" }}{{ end }}
{{- end }}
{{- if .Values.rssub.enabled }}
{{- if not (and .Values.rssub.sourceUrl .Values.rssub.callbackUrl) }}{{ fail "rssub.enabled needs two more values: rssub.sourceUrl, the URL of the Source, and rssub.callbackUrl, the URL at which the hub reaches its Service" }}{{ end }}
{{- end }}
{{- end }}
