char const* to_string(Status status) {
  switch (status) {
    case Status::kSuccess: return "success";
    case Status::kNotTuned: return "no kernel was tuned for this problem";
    case Status::kMisaligned: return "A, B or D is null or not 16-byte aligned, or workspace not 256-byte aligned";
    case Status::kWorkspaceMissing: return "this problem needs a workspace";
    case Status::kRefused: return "the kernel cannot run this problem on this device";
    case Status::kUnsupportedDevice: return "the current device is not of the architecture compiled for";
    case Status::kCudaError: return "a CUDA call failed";
  }
  return "unknown status";
}

int entry_count() { return kRowCount; }
Entry const& entry(int index) { return kRows[index].entry; }

int dispatch(Problem const& problem) {
  auto const order = [](Problem const& p) { return std::make_tuple(int(p.layout), p.m, p.n, p.k, p.batch); };
  Row const* const found =
      std::lower_bound(kRows, kRows + kRowCount, problem,
                       [&](Row const& row, Problem const& p) { return order(row.entry.problem) < order(p); });
  bool const exact = found != kRows + kRowCount && order(found->entry.problem) == order(problem);
  return exact ? static_cast<int>(found - kRows) : kNotTuned;
}
int dispatch(int m, int n, int k) { return dispatch(Problem{m, n, k}); }

bool beats_baseline(Problem const& problem) {
  int const index = dispatch(problem);
  return index != kNotTuned && kRows[index].beats_baseline;
}
bool beats_baseline(int m, int n, int k) { return beats_baseline(Problem{m, n, k}); }
