{{/* A set of servers: (dict "root" $ "part" NAME "replicas" N "options" LIST). */}}
{{- define "petrel.server" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $name := include "petrel.name" $root -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}-{{ .part }}
  labels:
    {{- include "petrel.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .part }}
spec:
  replicas: {{ .replicas }}
  serviceName: {{ $name }}-pods
  podManagementPolicy: Parallel
  {{- if eq .part "founder" }}
  # Not at the same time as a member: two of three that leave together would take the majority along.
  updateStrategy: {type: OnDelete}
  {{- end }}
  selector:
    matchLabels:
      {{- include "petrel.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .part }}
  template:
    metadata:
      labels:
        {{- include "petrel.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .part }}
      annotations:
        checksum/config: {{ include (print $root.Template.BasePath "/configmap.yaml") $root | sha256sum }}
        {{- if $values.metrics.annotations }}
        prometheus.io/scrape: "true"
        prometheus.io/port: {{ $values.httpPort | quote }}
        prometheus.io/path: /metrics
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      # shutdown-timeout, then saving.
      terminationGracePeriodSeconds: {{ add $values.shutdownTimeout $values.savingTime }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 999
        runAsGroup: 999
        fsGroup: 999
        fsGroupChangePolicy: OnRootMismatch
        seccompProfile: {type: RuntimeDefault}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: petrel
          image: "{{ $values.image.repository }}:{{ $values.image.tag | default $root.Chart.AppVersion }}"
          imagePullPolicy: {{ $values.image.pullPolicy }}
          args:
            - petrel
            - /etc/petrel/petrel.conf
            - --requirepass
            - $(PETREL_PASSWORD)
            {{- range .options }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: POD_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: PETREL_PASSWORD
              valueFrom: {secretKeyRef: {name: {{ include "petrel.secret" $root }}, key: password}}
          ports:
            - {name: redis, containerPort: 6379}
            - {name: http, containerPort: {{ $values.httpPort }}}
            {{- if eq $values.mode "cluster" }}
            - {name: bus, containerPort: 16379}
            {{- end }}
          # /health answers while the data is loaded, /ready once it is.
          startupProbe:
            httpGet: {path: /health, port: http}
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /health, port: http}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 3
          readinessProbe:
            httpGet: {path: /ready, port: http}
            periodSeconds: 5
            timeoutSeconds: 5
            failureThreshold: 2
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          {{- with $values.resources }}
          resources: {{- toYaml . | nindent 12 }}
          {{- end }}
          volumeMounts:
            - {name: data, mountPath: /data}
            - {name: config, mountPath: /etc/petrel, readOnly: true}
            {{- if eq $values.mode "cluster" }}
            - {name: secret, mountPath: /run/secrets/petrel, readOnly: true}
            {{- end }}
      volumes:
        - name: config
          configMap: {name: {{ $name }}}
        {{- if eq $values.mode "cluster" }}
        - name: secret
          secret:
            secretName: {{ include "petrel.secret" $root }}
            items: [{key: passphrase, path: passphrase}]
            defaultMode: 0440
        {{- end }}
        {{- if not $values.persistence.enabled }}
        - name: data
          emptyDir: {}
        {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $values.spread }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "petrel.selector" $root | nindent 14 }}
      {{- end }}
  {{- if $values.persistence.enabled }}
  volumeClaimTemplates:
    - metadata:
        name: data
      spec:
        accessModes: [ReadWriteOnce]
        {{- with $values.persistence.storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources: {requests: {storage: {{ $values.persistence.size }}}}
  {{- end }}
{{- end }}

{{/* Name under which others reach the pod. */}}
{{- define "petrel.announced" -}}
$(POD_NAME).{{ include "petrel.name" . }}-pods.{{ .Release.Namespace }}.svc
{{- end }}
