//! Spans and metrics as an exporter sees them (feature `opentelemetry`), over a scripted server.

use std::time::Duration;

use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue, Value as Attribute, global};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, Metric, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use petrel_client::{
    Address, Commands, MockServer, NearCacheOptions, Options, Pipeline, RawCommand, Value,
};

fn text(text: &'static str) -> Value {
    Value::Bulk(text.into())
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

/// An attribute as text.
fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key.as_str() == key)?;
    Some(match &found.value {
        Attribute::String(text) => text.as_str().to_owned(),
        other => other.to_string(),
    })
}

fn server_of(attributes: &[KeyValue]) -> [Option<String>; 4] {
    ["db.system.name", "db.namespace", "server.address", "server.port"]
        .map(|key| attribute(attributes, key))
}

/// The spans of a script of commands and what came of them, in one test: providers are of the whole
/// process.
#[tokio::test]
async fn spans_and_metrics_follow_the_conventions() {
    let exporter = InMemorySpanExporter::default();
    let tracing = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    global::set_tracer_provider(tracing.clone());
    let metrics = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(metrics.clone()).build();
    let metering = SdkMeterProvider::builder().with_reader(reader).build();
    global::set_meter_provider(metering.clone());

    let server = MockServer::new();
    server.expect(["GET", "secret-key"]).reply(text("secret-value"));
    server.expect(["LPUSH", "k", "x"]).reply(Value::Error("WRONGTYPE wrong".into()));
    server.expect(["JSON.GET", "secret-key"]).reply(Value::Null);
    server.expect(["SET", "a", "1"]).reply(ok());
    server.expect(["SET", "b", "2"]).reply(ok());
    server.expect(["MULTI"]).reply(ok());
    server.expect(["INCR", "n"]).reply(Value::Simple("QUEUED".into()));
    server.expect(["GET", "n"]).reply(Value::Simple("QUEUED".into()));
    server.expect(["EXEC"]).reply(Value::Array(vec![Value::Integer(1), text("1")]));
    server.expect(["GET", "slow"]).no_reply();

    let mut options = Options::new(Address::Tcp { host: "mock".into(), port: 6380 });
    options.database = 3;
    let client = server.client_with(options).await.unwrap();
    let tracer = global::tracer("test");
    let parent = Context::current_with_span(tracer.start("parent"));
    let parent_id = parent.span().span_context().span_id();
    {
        let _attached = parent.attach();
        let call = client.get("secret-key").into_future();
        call.await.unwrap();
    }
    client.lpush("k", ["x"]).await.unwrap_err();
    client.command("json.get").arg("secret-key").await.unwrap();
    let mut pipeline = Pipeline::new();
    pipeline.set("a", 1).queue();
    pipeline.set("b", 2).queue();
    client.run(pipeline).await.unwrap();
    let mut transaction = Pipeline::transaction();
    transaction.incr("n").queue();
    transaction.get("n").queue();
    client.run(transaction).await.unwrap();
    // A caller that goes away.
    let call = client.get("slow").into_future();
    assert!(tokio::time::timeout(Duration::from_millis(20), call).await.is_err());
    client.command("BLPOP").args(["l", "0"]).await.unwrap_err();
    server.finish();

    tracing.force_flush().unwrap();
    let spans = exporter.get_finished_spans().unwrap();
    let ours: Vec<&SpanData> =
        spans.iter().filter(|span| span.span_kind == SpanKind::Client).collect();
    let names: Vec<&str> = ours.iter().map(|span| &*span.name).collect();
    assert_eq!(
        names,
        [
            "GET mock:6380",
            "LPUSH mock:6380",
            "JSON.GET mock:6380",
            "PIPELINE SET mock:6380",
            "MULTI mock:6380",
            "GET mock:6380",
            "BLPOP mock:6380",
        ]
    );
    let expected = ["redis", "3", "mock", "6380"].map(|text| Some(text.to_owned()));
    for span in &ours {
        assert_eq!(server_of(&span.attributes), expected);
        assert_eq!(span.instrumentation_scope.name(), "petrel-client");
        // Neither keys nor values get into a trace.
        assert!(!format!("{span:?}").contains("secret"), "{span:?}");
    }
    let of = |at: usize, key: &str| attribute(&ours[at].attributes, key);
    assert_eq!(ours[0].parent_span_id, parent_id);
    assert_eq!((of(0, "db.operation.name"), of(0, "error.type")), (Some("GET".into()), None));
    assert_eq!(ours[0].status, Status::Unset);
    assert_eq!(of(1, "db.response.status_code").as_deref(), Some("WRONGTYPE"));
    assert_eq!(of(1, "error.type").as_deref(), Some("WRONGTYPE"));
    assert!(matches!(ours[1].status, Status::Error { .. }));
    assert_eq!(of(3, "db.operation.batch.size").as_deref(), Some("2"));
    assert_eq!(of(4, "db.operation.batch.size").as_deref(), Some("2"));
    assert_eq!(of(5, "error.type").as_deref(), Some("cancelled"));
    assert_eq!(of(6, "error.type").as_deref(), Some("needs_dedicated"));

    // A near cache: one span for a miss, none for hits.
    exporter.reset();
    server.expect(["CLIENT", "TRACKING", "ON", "OPTIN"]).reply(ok());
    server.expect(["CLIENT", "CACHING", "YES"]).reply(ok());
    server.expect(["GET", "near"]).reply(text("v"));
    server.expect(["PTTL", "near"]).reply(Value::Integer(-1));
    let near = server.client().await.unwrap();
    let near = near.near_cache(NearCacheOptions::default()).await.unwrap();
    for _ in 0..5 {
        near.get("near").await.unwrap();
    }
    tracing.force_flush().unwrap();
    assert_eq!(exporter.get_finished_spans().unwrap().len(), 1);
    assert_eq!(near.get("near").reply::<String>().await.unwrap(), "v");
    server.push(vec![text("invalidate"), Value::Array(vec![text("near")])]);
    while near.statistics().keys > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    metering.force_flush().unwrap();
    drop((near, client));
    let mut names = Vec::new();
    for metric in metrics.get_finished_metrics().unwrap().last().unwrap().scope_metrics() {
        for metric in metric.metrics() {
            names.push(metric.name().to_owned());
            near_metric(metric);
            let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = metric.data() else {
                continue;
            };
            if metric.name() != "db.client.operation.duration" {
                continue;
            }
            assert_eq!(metric.unit(), "s");
            // 8 kinds: by command, server and error.
            let mut total = 0;
            for point in histogram.data_points() {
                let attributes: Vec<KeyValue> = point.attributes().cloned().collect();
                assert_eq!(attribute(&attributes, "db.system.name").as_deref(), Some("redis"));
                total += point.count();
            }
            assert_eq!((histogram.data_points().count(), total), (8, 8));
        }
    }
    names.sort();
    assert_eq!(
        names,
        [
            "db.client.connection.count",
            "db.client.connection.create_time",
            "db.client.operation.duration",
            "petrel.near_cache.size",
            "redis.client.csc.evictions",
            "redis.client.csc.items",
            "redis.client.csc.requests",
        ]
    );
}

/// Checks what the metrics say of the near cache: a miss, five hits, an invalidation, no key left.
fn near_metric(metric: &Metric) {
    let point = |attributes: Vec<KeyValue>, value: u64| {
        assert_eq!(attribute(&attributes, "db.system.name").as_deref(), Some("redis"));
        assert_eq!(attribute(&attributes, "petrel.near_cache.id").as_deref(), Some("0"));
        let result = attribute(&attributes, "redis.client.csc.result");
        let reason = attribute(&attributes, "redis.client.csc.reason");
        (result.or(reason).unwrap_or_default(), value)
    };
    let AggregatedMetrics::U64(data) = metric.data() else { return };
    let mut points: Vec<(String, u64)> = match data {
        MetricData::Sum(sum) => sum
            .data_points()
            .map(|one| point(one.attributes().cloned().collect(), one.value()))
            .collect(),
        MetricData::Gauge(gauge) => gauge
            .data_points()
            .map(|one| point(one.attributes().cloned().collect(), one.value()))
            .collect(),
        other => panic!("{other:?}"),
    };
    points.sort();
    if metric.name() == "petrel.near_cache.size" {
        // No reply, but the room in which short ones that were read again had copies.
        let room = 1..=64 * 1024;
        return assert!(points.len() == 1 && room.contains(&points[0].1), "{points:?}");
    }
    let expected: &[(&str, u64)] = match metric.name() {
        "redis.client.csc.requests" => &[("hit", 5), ("miss", 1)],
        "redis.client.csc.evictions" => &[("full", 0), ("invalidation", 1)],
        _ => &[("", 0)],
    };
    let expected: Vec<(String, u64)> =
        expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    assert_eq!(points, expected, "{}", metric.name());
}
