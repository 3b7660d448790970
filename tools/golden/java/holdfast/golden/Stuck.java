package holdfast.golden;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;

/** A sink that, in one batch, writes a file to announce that batch, and then waits to be killed. */
public final class Stuck extends ForeachWriter<Row> {
  private final long batch;
  private final String reached;

  public Stuck(long batch, String reached) {
    this.batch = batch;
    this.reached = reached;
  }

  @Override
  public boolean open(long partition, long number) {
    if (number == batch) {
      try {
        Files.write(Paths.get(reached), Long.toString(number).getBytes(StandardCharsets.UTF_8));
        Thread.sleep(600000L);
      } catch (Exception error) {
        throw new IllegalStateException(error);
      }
    }
    return true;
  }

  @Override
  public void process(Row row) {}

  @Override
  public void close(Throwable error) {}
}
