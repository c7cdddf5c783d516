char const* to_string(Status status) {
  switch (status) {
    case Status::kSuccess: return "success";
    case Status::kNotTuned: return "no kernel was tuned for this problem";
    case Status::kMisaligned: return "Q, K, V or O is null or not 16-byte aligned, or lse null or not 4-byte aligned";
    case Status::kBadScale: return "the scale is not a positive number";
    case Status::kRefused: return "the kernel cannot run this problem on this device";
    case Status::kUnsupportedDevice: return "the current device is not of the architecture compiled for";
    case Status::kCudaError: return "a CUDA call failed";
  }
  return "unknown status";
}

int entry_count() { return kRowCount; }
Entry const& entry(int index) { return kRows[index].entry; }

int dispatch(Problem const& asked) {
  Problem problem = asked;
  if (problem.causal == Causal::kTopLeft && problem.seqlen_q == problem.seqlen_kv) {
    problem.causal = Causal::kBottomRight;
  }
  auto const order = [](Problem const& p) {
    return std::make_tuple(int(p.layout), int(p.causal), p.head_dim, p.seqlen_q, p.seqlen_kv, p.heads_q, p.heads_kv,
                           p.batch);
  };
  Row const* const found =
      std::lower_bound(kRows, kRows + kRowCount, problem,
                       [&](Row const& row, Problem const& p) { return order(row.entry.problem) < order(p); });
  bool const exact = found != kRows + kRowCount && order(found->entry.problem) == order(problem);
  return exact ? static_cast<int>(found - kRows) : kNotTuned;
}

bool beats_baseline(Problem const& problem) {
  int const index = dispatch(problem);
  return index != kNotTuned && kRows[index].beats_baseline;
}
