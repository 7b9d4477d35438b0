//! Prints the spans and metrics of a few commands as OpenTelemetry has them:
//! `cargo run -p petrel-client --features opentelemetry --example telemetry -- [URL]`.
//!
//! A program sets exporters of its own instead, such as those of `opentelemetry-otlp`, before it
//! makes clients.

use opentelemetry::global;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use petrel_client::{Client, Commands, Pipeline};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let spans = InMemorySpanExporter::default();
    let tracing = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
    global::set_tracer_provider(tracing.clone());
    let metrics = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(metrics.clone()).build();
    let metering = SdkMeterProvider::builder().with_reader(reader).build();
    global::set_meter_provider(metering.clone());

    let client = Client::connect(&url).await?;
    client.set("name", "petrel").ex(60).await?;
    let mut pipeline = Pipeline::new();
    for _ in 0..3 {
        pipeline.get("name").queue();
    }
    client.run(pipeline).await?;
    if let Err(error) = client.incr("name").await {
        println!("as expected: {error}\n");
    }

    tracing.force_flush()?;
    for span in spans.get_finished_spans()? {
        println!("span {}, {:?}", span.name, span.end_time.duration_since(span.start_time)?);
        for attribute in span.attributes {
            println!("    {} = {}", attribute.key, attribute.value);
        }
    }
    metering.force_flush()?;
    let collected = metrics.get_finished_metrics()?;
    let metrics = collected.iter().flat_map(|all| all.scope_metrics());
    for metric in metrics.flat_map(|scope| scope.metrics()) {
        if let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = metric.data() {
            let count: u64 = histogram.data_points().map(|point| point.count()).sum();
            println!("metric {}: {count} measured", metric.name());
        }
    }
    Ok(())
}
