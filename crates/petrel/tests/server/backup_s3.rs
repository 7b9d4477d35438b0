//! Backups in S3, Google Cloud Storage and Azure, as far as an imitation of them tells.

use crate::bucket::Bucket;
use crate::harness::*;
use std::process::Output;

const URL: &str = "s3://bucket/some/prefix";

/// Environment variables for access to a bucket.
struct Access(Vec<(&'static str, String)>);

impl Access {
    fn to(bucket: &Bucket) -> Self {
        Access(vec![
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", bucket.port)),
            ("AWS_ALLOW_HTTP", "true".into()),
            ("AWS_REGION", "us-east-1".into()),
            ("AWS_ACCESS_KEY_ID", "test-key".into()),
            ("AWS_SECRET_ACCESS_KEY", "test-secret".into()),
        ])
    }

    /// Access through the API of Google Cloud Storage.
    fn as_google_to(bucket: &Bucket) -> Self {
        let address = format!("http://127.0.0.1:{}", bucket.port);
        let key = format!(
            r#"{{"gcs_base_url": "{address}", "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}}"#
        );
        Access(vec![("GOOGLE_SERVICE_ACCOUNT_KEY", key), ("GOOGLE_ALLOW_HTTP", "true".into())])
    }

    /// Access through the API of Azure.
    fn as_azure_to(bucket: &Bucket) -> Self {
        Access(vec![
            ("AZURE_STORAGE_ENDPOINT", format!("http://127.0.0.1:{}", bucket.port)),
            ("AZURE_ALLOW_HTTP", "true".into()),
            ("AZURE_STORAGE_ACCOUNT_NAME", "acc".into()),
            ("AZURE_STORAGE_ACCOUNT_KEY", "dGVzdC1zZWNyZXQ=".into()),
        ])
    }

    fn variables(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(name, value)| (*name, &value[..])).collect()
    }

    fn start(&self, args: &[&str]) -> Server {
        let usual = ["--enable-debug-command", "yes", "--rdbcompression", "no"];
        let args = [&usual, args].concat();
        Server::start_with(Scratch::new(), "epoll", &args, &self.variables())
    }

    fn run(&self, args: &[&str]) -> Output {
        petrel(&Scratch::new()).args(args).envs(self.variables()).output().unwrap()
    }
}

fn save_and_ship(server: &Server) {
    let shipped = server.info("backup_total_shipped");
    assert_eq!(server.connect().text(&["SAVE"]), "OK");
    eventually("the backup", || {
        assert_eq!(server.info("backup_failing"), 0, "{}", server.output());
        server.info("backup_total_shipped") > shipped
    });
    eventually("its end", || server.info("backup_in_progress") == 0);
}

#[test]
fn a_large_snapshot_goes_to_s3_in_parts_and_comes_back() {
    let bucket = Bucket::new();
    goes_in_parts_and_comes_back(&bucket, &Access::to(&bucket), URL);
    assert_eq!(bucket.asked("partNumber"), 3);
}

#[test]
fn a_large_snapshot_goes_to_google_in_parts_and_comes_back() {
    let bucket = Bucket::new();
    bucket.open();
    let access = Access::as_google_to(&bucket);
    goes_in_parts_and_comes_back(&bucket, &access, "gs://bucket/some/prefix");
    assert_eq!(bucket.asked("partNumber"), 3);
}

#[test]
fn a_large_snapshot_goes_to_azure_in_parts_and_comes_back() {
    let bucket = Bucket::new();
    let access = Access::as_azure_to(&bucket);
    goes_in_parts_and_comes_back(&bucket, &access, "az://bucket/some/prefix");
    assert_eq!(bucket.asked("blockid"), 3);
}

fn goes_in_parts_and_comes_back(bucket: &Bucket, access: &Access, url: &str) {
    let server = access.start(&["--backup-store", url, "--backup-keep", "1"]);
    save_and_ship(&server);
    let mut client = server.connect();
    client.call(&["DEBUG", "POPULATE", "18000", "key", "1000"]);
    let digest = client.text(&["DEBUG", "DIGEST"]);
    save_and_ship(&server);
    let keys = bucket.keys();
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert!(keys[0].starts_with("some/prefix/2") && keys[0].ends_with("Z/dump.rdb"), "{keys:?}");
    assert!(keys[1].ends_with("Z/manifest"), "{keys:?}");
    let listed = String::from_utf8(access.run(&["backups", url]).stdout).unwrap();
    assert_eq!(listed.lines().count(), 1, "{listed}");

    let restored = access.start(&["--restore-from", url]);
    assert_eq!(restored.connect().text(&["DEBUG", "DIGEST"]), digest);
}

#[test]
fn the_newest_stay_in_a_bucket_that_is_listed_in_pages() {
    let bucket = Bucket::new();
    let access = Access::to(&bucket);
    let server = access.start(&["--backup-store", URL, "--backup-keep", "3"]);
    for value in ["1", "2", "3", "4", "5"] {
        server.connect().call(&["SET", "key", value]);
        save_and_ship(&server);
    }
    assert_eq!(bucket.keys().len(), 6, "{:?}", bucket.keys());
    assert!(bucket.asked("continuation-token") > 0);
    let restored = access.start(&["--restore-from", &format!("{URL}@latest")]);
    assert_eq!(restored.connect().text(&["GET", "key"]), "5");
}

#[test]
fn an_upload_that_fails_midway_is_given_up_and_made_again() {
    let bucket = Bucket::new();
    let access = Access::to(&bucket);
    let server = access.start(&["--backup-store", URL]);
    server.connect().call(&["DEBUG", "POPULATE", "9000", "key", "1000"]);
    bucket.refuse("\"partNumber\": \"2\"", 403, "AccessDenied");
    assert_eq!(server.connect().text(&["SAVE"]), "OK");
    eventually("a failure", || server.info("backup_total_failures") > 0);
    assert_eq!(bucket.unfinished(), (1, 0));
    assert!(bucket.keys().is_empty());
    assert!(
        server.output().contains("credentials must allow to list, read, write"),
        "{}",
        server.output()
    );
    bucket.refuse("", 0, "");
    eventually("the backup", || server.info("backup_total_shipped") == 1);
    assert_eq!(bucket.keys().len(), 2);
}

#[test]
fn without_its_manifest_there_is_no_backup() {
    let bucket = Bucket::new();
    let access = Access::to(&bucket);
    bucket.refuse("/manifest", 403, "AccessDenied");
    let server = access.start(&["--backup-store", URL]);
    assert_eq!(server.connect().text(&["SAVE"]), "OK");
    eventually("a failure", || server.info("backup_total_failures") > 0);
    assert_eq!(bucket.keys().len(), 1, "{:?}", bucket.keys());
    let output = access.run(&["--port", "0", "--unixsocket", "s", "--restore-from", URL]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("there is no complete backup in s3://bucket/some/prefix"), "{text}");
}

#[test]
fn a_bucket_that_cannot_be_reached_or_refuses_says_what_to_look_at() {
    let bucket = Bucket::new();
    let mut access = Access::to(&bucket);
    access.0.retain(|(name, _)| *name != "AWS_ACCESS_KEY_ID");
    access.0.push(("AWS_ACCESS_KEY_ID", "wrong".into()));
    let text = String::from_utf8(access.run(&["backups", URL]).stderr).unwrap();
    assert!(text.contains("AccessDenied") && text.contains("credentials must allow"), "{text}");
    let mut access = Access::to(&bucket);
    access.0[0].1 = format!("http://127.0.0.1:{}", free_port());
    let text = String::from_utf8(access.run(&["backups", URL]).stderr).unwrap();
    assert!(text.contains("Connection refused") && text.contains("the network"), "{text}");
}
