// Launches of one contestant as a CUDA graph, set after set, replayed between two events.
class Replay {
 public:
  template <class Enqueue>
  Replay(Enqueue&& enqueue, int launches, cudaStream_t stream) : launches_(launches), stream_(stream) {
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < launches; ++i) { enqueue(i); }
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&graph_, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventCreate(&begin_));
    CHECK(cudaEventCreate(&end_));
  }
  ~Replay() {
    cudaGraphExecDestroy(graph_);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Replay(Replay const&) = delete;
  Replay& operator=(Replay const&) = delete;

  // Microseconds a launch. An untimed replay goes first: on an idle stream the event would be recorded
  // at once, and the microseconds until the graph's first node starts would be in the time.
  double sample() const {
    CHECK(cudaGraphLaunch(graph_, stream_));
    CHECK(cudaEventRecord(begin_, stream_));
    CHECK(cudaGraphLaunch(graph_, stream_));
    CHECK(cudaEventRecord(end_, stream_));
    CHECK(cudaEventSynchronize(end_));
    float ms = 0.0f;
    CHECK(cudaEventElapsedTime(&ms, begin_, end_));
    return 1e3 * ms / launches_;
  }
  void warm_up() const {
    for (double spent = 0.0; spent < kWarmUpUs;) { spent += sample() * launches_; }
  }

 private:
  int launches_;
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}
