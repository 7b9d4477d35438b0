//! Moves an amount between two accounts if there is enough, although others write to them, too:
//! `transfer [URL]`.

use petrel_client::{Client, Commands, Error, Pipeline};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let client = Client::connect(&url).await?;
    let (from, to) = ("example:{account}:1", "example:{account}:2");
    client.mset([(from, 100), (to, 0)]).await?;
    client
        .watch_and_run(&[from], 10, async |connection| {
            let balance: i64 = connection.get(from).reply().await?;
            let mut transaction = Pipeline::transaction();
            if balance >= 30 {
                transaction.decrby(from, 30).queue();
                transaction.incrby(to, 30).queue();
            }
            Ok(transaction)
        })
        .await?;
    println!("{:?}", client.mget([from, to]).reply::<Vec<i64>>().await?);
    Ok(())
}
