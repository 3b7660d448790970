package holdfast.golden;

import java.io.Serializable;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.api.java.function.FlatMapGroupsWithStateFunction;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.api.java.function.MapGroupsWithStateFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.KeyValueGroupedDataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.GroupState;
import org.apache.spark.sql.streaming.GroupStateTimeout;
import org.apache.spark.sql.streaming.OutputMode;

/** The stateful operators that Spark has only for Scala and Java, over rows whose first column is a text. */
public final class Groups {
  // Later than every event of the scenarios, on 2026-01-01: a timeout must be later than the watermark.
  private static final long TOMORROW = 1767312000000L;

  private Groups() {}

  /** The state of a key. */
  public static final class Seen implements Serializable {
    private long n;
    private String note;

    public long getN() {
      return n;
    }

    public void setN(long n) {
      this.n = n;
    }

    public String getNote() {
      return note;
    }

    public void setNote(String note) {
      this.note = note;
    }
  }

  private static final class Key implements MapFunction<Row, String> {
    @Override
    public String call(Row row) {
      return row.getString(0);
    }
  }

  private static String counted(String key, Iterator<Row> rows, GroupState<Seen> state) {
    Seen seen = state.exists() ? state.get() : new Seen();
    while (rows.hasNext()) {
      rows.next();
      seen.setN(seen.getN() + 1);
    }
    seen.setNote("seen " + key);
    state.update(seen);
    return key + " " + seen.getN();
  }

  private static final class Count implements MapGroupsWithStateFunction<String, Row, Seen, String> {
    @Override
    public String call(String key, Iterator<Row> rows, GroupState<Seen> state) {
      return counted(key, rows, state);
    }
  }

  private static final class CountUntil implements FlatMapGroupsWithStateFunction<String, Row, Seen, String> {
    @Override
    public Iterator<String> call(String key, Iterator<Row> rows, GroupState<Seen> state) {
      if (state.hasTimedOut()) {
        state.remove();
        return Collections.singletonList(key + " timed out").iterator();
      }
      String said = counted(key, rows, state);
      state.setTimeoutTimestamp(TOMORROW);
      return Collections.singletonList(said).iterator();
    }
  }

  private static KeyValueGroupedDataset<String, Row> byKey(Dataset<Row> rows) {
    return rows.groupByKey(new Key(), Encoders.STRING());
  }

  /** Applies `mapGroupsWithState`, without a timeout. */
  public static Dataset<Row> map(Dataset<Row> rows) {
    return byKey(rows)
        .mapGroupsWithState(new Count(), Encoders.bean(Seen.class), Encoders.STRING())
        .toDF();
  }

  /** Applies `flatMapGroupsWithState`, with an event-time timeout; the rows need a watermark. */
  public static Dataset<Row> flatMap(Dataset<Row> rows) {
    return byKey(rows)
        .flatMapGroupsWithState(
            new CountUntil(),
            OutputMode.Update(),
            Encoders.bean(Seen.class),
            Encoders.STRING(),
            GroupStateTimeout.EventTimeTimeout())
        .toDF();
  }
}
