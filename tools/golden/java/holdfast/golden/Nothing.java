package holdfast.golden;

import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;

/** A sink that keeps nothing, for Spark versions without `noop`. */
public final class Nothing extends ForeachWriter<Row> {
  @Override
  public boolean open(long partition, long batch) {
    return true;
  }

  @Override
  public void process(Row row) {}

  @Override
  public void close(Throwable error) {}
}
